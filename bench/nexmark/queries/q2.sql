-- Selection: the bids for some auctions.
CREATE VIEW q2 AS
SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0;

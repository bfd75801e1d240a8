-- Find the last bid: of each person for each auction.
CREATE VIEW q18 AS
SELECT auction, bidder, price, channel, url, dateTime, extra
FROM bid
QUALIFY ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC) <= 1;

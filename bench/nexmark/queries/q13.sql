-- Bounded side input join: every bid with the row of a table, as that is when the bid comes.
CREATE VIEW q13 AS
SELECT b.auction, b.bidder, b.price, b.dateTime, s.value
FROM bid b JOIN side_input FOR SYSTEM_TIME AS OF b.dateTime s ON MOD(b.auction, 10000) = s.key;

-- Log to a file system: every bid with its day and minute, by which a sink can partition its files.
CREATE VIEW q10 AS
SELECT auction, bidder, price, dateTime, extra,
       substring(CAST(dateTime AS STRING), 1, 10) AS dt, substring(CAST(dateTime AS STRING), 12, 5) AS hm
FROM bid;

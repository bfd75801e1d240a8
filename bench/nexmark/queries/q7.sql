-- Highest bid: the bids with the highest price of each ten seconds.
CREATE VIEW q7 AS
ISTREAM(SELECT b.auction, b.price, b.bidder, b.dateTime, b.extra
        FROM bid [RANGE 20 SECONDS] b
        JOIN (SELECT MAX(price) AS maxprice, window_end
              FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
              GROUP BY window_start, window_end) m
        ON b.price = m.maxprice
        WHERE b.dateTime BETWEEN m.window_end - INTERVAL '10' SECOND AND m.window_end);

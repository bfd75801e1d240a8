-- Hot items: the auctions with the most bids in ten seconds, every two seconds.
CREATE VIEW q5_bids AS
SELECT auction, COUNT(*) AS num, window_start AS starttime, window_end AS endtime
FROM TABLE(HOP(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
GROUP BY auction, window_start, window_end;

CREATE VIEW q5 AS
ISTREAM(SELECT b.auction, b.num, b.endtime
        FROM q5_bids b
        JOIN (SELECT MAX(num) AS maxn, endtime FROM q5_bids GROUP BY endtime) m
        ON b.endtime = m.endtime AND b.num >= m.maxn);

-- Processing time windows: the bids of each person in ten seconds of the clock.
CREATE VIEW q12 AS
ISTREAM(SELECT bidder, COUNT(*) AS bid_count, window_start AS starttime, window_end AS endtime
        FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(received), INTERVAL '10' SECOND))
        GROUP BY bidder, window_start, window_end);

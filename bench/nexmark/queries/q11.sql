-- User sessions: the bids of each person, until there are none for ten seconds.
CREATE VIEW q11 AS
SELECT bidder, COUNT(*) AS bid_count, session_start AS starttime, MAX(dateTime) + INTERVAL '10' SECOND AS endtime
FROM bid [SESSION 10 SECONDS PARTITION BY bidder]
GROUP BY bidder, session_start;

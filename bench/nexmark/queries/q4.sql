-- Average price for a category: the mean of the highest bids, while auctions were open.
CREATE VIEW q4 AS
SELECT q.category, AVG(q.final) AS average
FROM (SELECT MAX(b.price) AS final, a.category
      FROM auction a JOIN bid b ON a.id = b.auction
      WHERE b.dateTime BETWEEN a.dateTime AND a.expires
      GROUP BY a.id, a.category) q
GROUP BY q.category;

-- Average selling price by seller: of the last ten closed auctions, and this one.
CREATE VIEW q6 AS
SELECT seller, AVG(final) OVER (PARTITION BY seller ORDER BY dateTime ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS average
FROM (SELECT a.id, a.seller, b.price AS final, b.dateTime
      FROM auction a JOIN bid b ON a.id = b.auction
      WHERE b.dateTime BETWEEN a.dateTime AND a.expires
      QUALIFY ROW_NUMBER() OVER (PARTITION BY a.id, a.seller ORDER BY b.price DESC, b.dateTime) <= 1) q;

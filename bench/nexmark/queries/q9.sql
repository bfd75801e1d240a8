-- Winning bids: the highest bid of each auction, while it was open.
CREATE VIEW q9 AS
SELECT a.id, a.itemName, a.description, a.initialBid, a.reserve, a.dateTime, a.expires, a.seller, a.category, a.extra,
       b.auction, b.bidder, b.price, b.dateTime AS bid_dateTime, b.extra AS bid_extra
FROM auction a JOIN bid b ON a.id = b.auction
WHERE b.dateTime BETWEEN a.dateTime AND a.expires
QUALIFY ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.dateTime) <= 1;

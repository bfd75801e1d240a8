CREATE STREAM highway (station INT, lane SMALLINT, speed DOUBLE, length DOUBLE, ts TIMESTAMP, TIMELINE ts)
  FROM csv('highway.csv', header => true);

CREATE VIEW average_speed AS
  SELECT station, AVG(speed) AS avg_speed FROM highway [RANGE 15 MINUTES] GROUP BY station;

CREATE VIEW congested AS
  SELECT station FROM average_speed WHERE avg_speed < 15;

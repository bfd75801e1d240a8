CREATE STREAM fire (station INT, ts TIMESTAMP, TIMELINE ts)
  FROM csv('fire.csv', header => true);
CREATE STREAM brigade (station INT, ts TIMESTAMP, TIMELINE ts)
  FROM csv('brigade.csv', header => true);
CREATE STREAM exits (station INT, person INT, ts TIMESTAMP, TIMELINE ts)
  FROM csv('exits.csv', header => true);

-- who left a station from its fire to the arrival of a brigade, both included: two events say what is counted
CREATE STREAM evacuated TIMELINE arrived AS
  SELECT f.station, a.ts AS arrived, COUNT(*) AS people
  FROM fire f JOIN brigade a ON a.station = f.station AND a.ts >= f.ts AND a.ts <= f.ts + INTERVAL '1' HOUR
       JOIN exits x ON x.station = f.station AND x.ts BETWEEN f.ts AND a.ts
  GROUP BY f.station, f.ts, a.ts;

-- fires to which no brigade came within the hour
CREATE STREAM unanswered TIMELINE deadline AS
  SELECT f.station, f.ts AS since, f.ts + INTERVAL '1' HOUR AS deadline
  FROM fire f
  WHERE NOT EXISTS (SELECT 1 FROM brigade a WHERE a.station = f.station
                    AND a.ts >= f.ts AND a.ts <= f.ts + INTERVAL '1' HOUR);

-- an event stream is a stream: an event query may read it, and a view
CREATE STREAM still_inside TIMELINE ts AS
  SELECT u.station, u.deadline, x.person, x.ts
  FROM unanswered u JOIN exits x ON x.station = u.station AND x.ts > u.deadline
       AND x.ts <= u.deadline + INTERVAL '30' MINUTE;
CREATE VIEW alarms AS
  SELECT station, COUNT(*) AS fires FROM unanswered [RANGE 2 HOURS] GROUP BY station;

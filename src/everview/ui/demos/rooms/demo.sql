CREATE STREAM temperature (room STRING, temperature INT, ts TIMESTAMP, TIMELINE ts)
  FROM csv('temperature.csv', header => true);

-- a later reading of a room takes the place of the one before
CREATE TAGGED STREAM rooms OVER temperature KEY (room);

-- T1 and T2: the rooms above 80, above 100
CREATE VIEW hot AS
  SELECT room, temperature FROM rooms WHERE temperature > 80;
CREATE VIEW very_hot AS
  SELECT room, temperature FROM rooms WHERE temperature > 100;

-- T3: as T1, every 2 seconds
CREATE VIEW hot_2 AS
  SELECT room, temperature FROM rooms SYNC EVERY INTERVAL '2' SECOND WHERE temperature > 80;

-- T4: as T2, every 4 seconds; it can be answered from T3, because every 4th second is a 2nd one
CREATE VIEW very_hot_4 AS
  SELECT room, temperature FROM hot_2 SYNC EVERY INTERVAL '4' SECOND WHERE temperature > 100;

-- T5: as T2, whenever a room reports more than 120
CREATE VIEW alarm AS
  SELECT ts FROM temperature WHERE temperature > 120;
CREATE VIEW very_hot_at_alarm AS
  SELECT room, temperature FROM rooms SYNC ON alarm WHERE temperature > 100;

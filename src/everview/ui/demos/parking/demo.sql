CREATE STREAM entering (vid STRING, vtype STRING, vowner STRING, ts TIMESTAMP, TIMELINE ts)
  FROM csv('entering.csv', header => true);
CREATE STREAM leaving (vid STRING, vtype STRING, vowner STRING, ts TIMESTAMP, TIMELINE ts)
  FROM csv('leaving.csv', header => true);

-- P1: the vehicles in the lot
CREATE VIEW inside AS
  SELECT vid, vtype FROM entering EXCEPT ALL SELECT vid, vtype FROM leaving;

-- P2: how many of each type, a view over that view
CREATE VIEW per_type AS
  SELECT vtype, COUNT(vid) AS vehicles FROM inside GROUP BY vtype;

-- for P3: is Joe Doe's car in the lot right now? It is asked when somebody wants to know.
CREATE COMPLETE VIEW with_owner AS
  SELECT vid, vtype, vowner FROM entering EXCEPT ALL SELECT vid, vtype, vowner FROM leaving;

-- P4: as P1, reported every 2 minutes
CREATE VIEW inside_2 AS
  SELECT vid, vtype FROM entering SYNC EVERY INTERVAL '2' MINUTE
  EXCEPT ALL
  SELECT vid, vtype FROM leaving SYNC EVERY INTERVAL '2' MINUTE;

-- P5: as P2, reported every 4 minutes; a query over P4
CREATE VIEW per_type_4 AS
  SELECT vtype, COUNT(vid) AS vehicles FROM inside_2 SYNC EVERY INTERVAL '4' MINUTE GROUP BY vtype;

-- P6: as P2, reported whenever a police car comes
CREATE VIEW police AS
  SELECT ts FROM entering WHERE vtype = 'POLICE';
CREATE VIEW per_type_police AS
  SELECT vtype, COUNT(vid) AS vehicles FROM inside SYNC ON police GROUP BY vtype;

-- P7: who entered in the last 5 minutes
CREATE VIEW recent AS
  SELECT vid FROM entering WHERE NOW - INTERVAL '5' MINUTE < ts AND ts <= NOW;

CREATE STREAM link1 (ts TIMESTAMP, duration DOUBLE, protocol STRING, payload BIGINT, src STRING, dst STRING,
                     TIMELINE ts)
  FROM csv('link1.csv', header => true);
CREATE STREAM link2 (ts TIMESTAMP, duration DOUBLE, protocol STRING, payload BIGINT, src STRING, dst STRING,
                     TIMELINE ts)
  FROM csv('link2.csv', header => true);
CREATE STREAM link3 (ts TIMESTAMP, duration DOUBLE, protocol STRING, payload BIGINT, src STRING, dst STRING,
                     TIMELINE ts)
  FROM csv('link3.csv', header => true);

-- query 1: ftp sessions of one host on two links. WK: a pair ends with the first of its two
CREATE VIEW both_links AS
  SELECT a.src, a.payload, b.payload AS other
  FROM link1 [RANGE 2000 SECONDS] a JOIN link2 [RANGE 2000 SECONDS] b ON a.src = b.src
  WHERE a.protocol = 'ftp' AND b.protocol = 'ftp';

-- query 2: the hosts that use a link. WK: a host stays for as long as one of its rows does
CREATE VIEW hosts AS
  SELECT DISTINCT src FROM link1 [RANGE 2000 SECONDS];

-- query 3: what is on one link and not on the other. STR: nobody knows when the other link takes one away
CREATE VIEW only_link1 AS
  SELECT src FROM link1 [RANGE 2000 SECONDS] EXCEPT ALL SELECT src FROM link2 [RANGE 2000 SECONDS];

-- query 4: the hosts on both links
CREATE VIEW hosts_of_both AS
  SELECT a.src
  FROM (SELECT DISTINCT src FROM link1 [RANGE 2000 SECONDS]) a
       JOIN (SELECT DISTINCT src FROM link2 [RANGE 2000 SECONDS]) b ON a.src = b.src;

-- query 5: query 3 joined with the ftp sessions of a third link
CREATE VIEW ftp_of_those AS
  SELECT n.src, c.payload
  FROM only_link1 n JOIN link3 [RANGE 2000 SECONDS] c ON n.src = c.src
  WHERE c.protocol = 'ftp';

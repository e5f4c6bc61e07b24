-- Run once on the source, by the image's entry point. Replication carries all of it
-- to the replicas.

CREATE USER repl IDENTIFIED BY 'repl-pw';
GRANT REPLICATION SLAVE ON *.* TO repl;

-- What Causeway needs, and no more.
CREATE USER causeway IDENTIFIED BY 'causeway-pw';
GRANT REPLICATION CLIENT ON *.* TO causeway;
GRANT SELECT ON performance_schema.* TO causeway;

-- ProxySQL's monitor.
CREATE USER monitor IDENTIFIED BY 'monitor-pw';
GRANT REPLICATION CLIENT ON *.* TO monitor;

-- The application, and `causeway verify`.
CREATE DATABASE shop;
CREATE TABLE shop.orders (id INT AUTO_INCREMENT PRIMARY KEY, item VARCHAR(80) NOT NULL);
CREATE USER app IDENTIFIED BY 'app-pw';
GRANT ALL ON shop.* TO app;
CREATE USER verify IDENTIFIED BY 'verify-pw';
GRANT ALL ON causeway_verify.* TO verify;

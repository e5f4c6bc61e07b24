-- Run once on each replica, by the image's entry point, before it takes connections.

-- Whatever the entry point wrote here must not count as a transaction of its own.
RESET BINARY LOGS AND GTIDS;

CHANGE REPLICATION SOURCE TO
    SOURCE_HOST = 'source',
    SOURCE_PORT = 3306,
    SOURCE_USER = 'repl',
    SOURCE_PASSWORD = 'repl-pw',
    SOURCE_AUTO_POSITION = 1,
    SOURCE_CONNECT_RETRY = 1,
    SOURCE_RETRY_COUNT = 100000,
    GET_SOURCE_PUBLIC_KEY = 1;

-- From the next start on, which follows at once and also starts replication. As an
-- option it would already be in the way of the entry point.
SET PERSIST_ONLY super_read_only = ON;

# A server that is started, used and stopped, in $PWD/data.
set -e
pg_ctl -s -w -D "$PWD/data" -l "$PWD/server" -o "-k $PWD -c listen_addresses= -c fsync=on -c shared_buffers=16MB" start
pgbench -h "$PWD" -i -s 1 -q postgres
pgbench -h "$PWD" -n -c 2 -j 2 -t 20 postgres
pg_ctl -s -w -D "$PWD/data" stop

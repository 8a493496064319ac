# A data base that is asked some times, writes itself down and ends.
set -e
redis-server --port "$1" --bind 127.0.0.1 --daemonize yes --dir "$PWD" --pidfile "$PWD/redis.pid" --appendonly yes
ask() { redis-cli -p "$1" "${@:2}"; }
for i in $(seq 50); do ask "$1" ping && break; sleep 0.1; done
ask "$1" set key value; ask "$1" get key; ask "$1" incr n; ask "$1" lpush list a b c; ask "$1" lrange list 0 -1
ask "$1" config get save; ask "$1" info; ask "$1" bgsave; sleep 0.3; ask "$1" dbsize; ask "$1" client list
ask "$1" shutdown save || true
while [ -e redis.pid ]; do sleep 0.1; done

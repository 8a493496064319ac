# A web server with a worker, which is asked some times and then ends.
set -e
mkdir logs; echo hello > index.html; seq 1 5000 > large.txt
cat > nginx.conf <<X
pid $PWD/nginx.pid; error_log $PWD/logs/error.log; worker_processes 1; user root;
events { worker_connections 64; }
http {
  access_log $PWD/logs/access.log; sendfile on; keepalive_timeout 5; client_body_temp_path $PWD/t1;
  proxy_temp_path $PWD/t2; fastcgi_temp_path $PWD/t3; uwsgi_temp_path $PWD/t4; scgi_temp_path $PWD/t5;
  server { listen 127.0.0.1:$1; root $PWD; }
}
X
nginx -p "$PWD" -c "$PWD/nginx.conf"
for path in / /large.txt /nowhere / /large.txt; do
  exec 3<> /dev/tcp/127.0.0.1/"$1"
  printf 'GET %s HTTP/1.0\r\nHost: a\r\n\r\n' "$path" >&3
  cat <&3
  exec 3>&-
done
nginx -p "$PWD" -c "$PWD/nginx.conf" -s reload; sleep 0.3
nginx -p "$PWD" -c "$PWD/nginx.conf" -s quit
while [ -e nginx.pid ]; do sleep 0.1; done

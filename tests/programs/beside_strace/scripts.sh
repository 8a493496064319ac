# Well-known programs, each with what people do with it: NAME [ARGUMENTS], in an empty folder. Those
# that say so are for bash, all others for any shell. An interpreter reads all of them and runs one.
set -e
name=$1
shift
case $name in

    # A sandbox: namespaces, mounts, and a filter of none.
    bwrap)
        bwrap --ro-bind / / true
        bwrap --unshare-all --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib \
            --symlink usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp --dir /tmp/a --file 3 /tmp/b --chdir /tmp --hostname box \
            --die-with-parent --uid 0 --gid 0 --cap-drop ALL sh -c 'cat /tmp/b; id; hostname; ls /dev' 3< /etc/hostname
        ! bwrap --ro-bind /nowhere /nowhere true
        ;;

    # Programs of coreutils, with files that are there and some that are not.
    coreutils)
        mkdir a; cd a
        echo hello > f; printf 'b\na\nc\n' > 'a "quoted" name'
        ls -la /etc . > list; cp list copy; cp -r /etc/apt apt; mv copy moved; ln moved hard; ln -s moved soft
        cat list moved | sort -r | head -3; sort -u list > sorted; wc -l list; head -c 300 list | uniq -c | tail -2
        stat /proc/self; stat -f .; touch -d 2001-01-01 t; touch -r t u; chmod 600 u; chown 0:0 u; truncate -s 100 u
        dd if=/dev/zero of=z bs=1k count=4; sha256sum z; cksum z; od -c z; base64 z
        mkdir -p x/y/z; rmdir -p x/y/z; mkfifo fifo; mktemp ./tmpXXXX; df .; du -s .; id; date -u -d @0; uname -a; nproc
        seq 1 100 | tee t1 t2; split -l 10 t1; shuf -i 1-10; readlink -f soft; realpath .; pwd; whoami
        sleep 0.01; timeout 1 true; timeout 0.05 sleep 1 || true; nice -n 5 true; nohup true; sync f; comm t1 t2
        cat /nowhere || true; ls /nowhere || true; rm /nowhere || true; rm -rf apt; rm f; ls --color=always -lRt .
        install -m 755 list inst; expr 1 + 2; factor 12; tac t1; stdbuf -o0 true; tail -c 5 t1; who || true
        stty -a || true; mknod p p; unlink p; link t1 t9; groups; nl t1; yes | head -1; env; printenv HOME || true
        ;;

    # A program, from its source to its end.
    gcc)
        cat > h.c <<'X'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int c, char **v) { printf("hi %d %s\n", c, v[0]); return strlen(v[0]) == 0; }
X
        gcc -O2 -Wall -c h.c -o h.o; gcc h.o -o h; ./h; gcc -E h.c; gcc -c x.c || true
        ;;

    # A repository, its copies, and what people do with them.
    git)
        export HOME=$PWD GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        git init -q r; cd r; for i in 1 2 3 4 5; do seq 1 $((i * 50)) > f$i; done; mkdir d; cp f1 d/g
        git add .; git commit -qm one; echo x >> f1; git diff; git status; git commit -qam two; git log -p
        git branch b; git checkout -q b; echo y > n; git add n; git commit -qm three; git checkout -q -; git merge -q b
        git tag v1; git gc -q; cd ..; git clone -q r c; cd c; git log --oneline; git grep 49; git mv f2 f7
        git commit -qm m
        git push -q origin HEAD:z
        ;;

    # Asks the kernel by netlink, and is refused.
    ip)
        ip addr
        ip link show lo
        ip -6 addr show lo
        ip route
        ip route show table local
        ip -6 route
        ip route get 127.0.0.1
        ip neigh
        ip rule
        ! ip route get 127.0.0.1 from 192.0.2.77 iif lo
        ! ip link show surely-none
        ;;

    # A web server with a worker, which is asked some times and then ends. For bash: NAME PORT.
    nginx)
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
        ;;

    # Containers and images, of which there are none.
    podman)
        mkdir -p run root home
        export HOME=$PWD/home XDG_RUNTIME_DIR=$PWD/run
        podman() {
            command podman --root "$PWD/root" --runroot "$PWD/run" --storage-driver vfs --cgroup-manager cgroupfs \
                --events-backend none "$@"
        }
        podman --version
        podman images
        podman ps -a
        podman volume ls
        podman network ls
        ! podman inspect nowhere
        ;;

    # A server that is started, used and stopped, in $PWD/data.
    postgresql)
        pg_ctl -s -w -D "$PWD/data" -l "$PWD/server" \
            -o "-k $PWD -c listen_addresses= -c fsync=on -c shared_buffers=16MB" start
        pgbench -h "$PWD" -i -s 1 -q postgres
        pgbench -h "$PWD" -n -c 2 -j 2 -t 20 postgres
        pg_ctl -s -w -D "$PWD/data" stop
        ;;

    # A data base that is asked some times, writes itself down and ends. For bash: NAME PORT.
    redis)
        redis-server --port "$1" --bind 127.0.0.1 --daemonize yes --dir "$PWD" \
            --pidfile "$PWD/redis.pid" --appendonly yes
        ask() { redis-cli -p "$1" "${@:2}"; }
        for i in $(seq 50); do ask "$1" ping && break; sleep 0.1; done
        ask "$1" set key value; ask "$1" get key; ask "$1" incr n; ask "$1" lpush list a b c; ask "$1" lrange list 0 -1
        ask "$1" config get save; ask "$1" info; ask "$1" bgsave; sleep 0.3; ask "$1" dbsize; ask "$1" client list
        ask "$1" shutdown save || true
        while [ -e redis.pid ]; do sleep 0.1; done
        ;;

    # Keys of each kind, signatures and lists of known hosts.
    ssh-keygen)
        ssh-keygen -q -t ed25519 -N '' -f k; ssh-keygen -lf k.pub; ssh-keygen -q -t ecdsa -N pw -f e; ssh-keygen -y -f k
        ssh-keygen -q -p -P pw -N '' -f e; ssh-keygen -q -t rsa -b 1024 -N '' -f r
        echo "a $(cat k.pub)" > known; ssh-keygen -F a -f known; ssh-keygen -H -f known; ssh-keygen -R a -f known
        ssh-keygen -s k -I id -n u e.pub; ssh-keygen -L -f e-cert.pub; echo x > m; ssh-keygen -Y sign -f k -n file m
        ssh-keygen -q -t ed25519 -N '' -f k < /dev/null || true; ssh-keygen -lf /nowhere || true
        ;;

    # Archives: made, listed, compared, extracted.
    tar)
        mkdir s o; cp -r /etc/apt /etc/default s/; ln -s x s/l
        tar cf a.tar s; tar tf a.tar; tar xf a.tar -C o; tar czf a.tgz s; tar xzf a.tgz -C o; tar rf a.tar a.tgz
        tar df a.tar s || true; tar cf - s | tar xf - -C o; tar -g inc -cf c.tar s; tar x -f nowhere || true
        ;;

    *)
        echo "no script is called $name" >&2
        exit 2
        ;;
esac

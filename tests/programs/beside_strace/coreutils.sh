# Programs of coreutils, with files that are there and some that are not.
set -e
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

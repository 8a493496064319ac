"""Files, threads, processes, sockets, signals and a data base."""
import asyncio, contextlib, fcntl, json, mmap, os, pathlib, resource, select, shutil, signal, socket, sqlite3, subprocess
import tempfile, threading, time

print(json.dumps(sorted(os.listdir("/"))))
d = tempfile.mkdtemp(dir=".")
for n in range(10):
    pathlib.Path(d, f"f{n}").write_text("x" * n * 100)
shutil.copytree(d, d + "2")
shutil.rmtree(d)
a, b = socket.socketpair()
a.sendall(b"hello")
print(b.recv(100))
threads = [threading.Thread(target=time.sleep, args=(0.001 * n,)) for n in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
print(subprocess.run(["echo", "hi"], capture_output=True).stdout)
subprocess.run("exit 3", shell=True)
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(("127.0.0.1", server.getsockname()[1]))
peer, _ = server.accept()
client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
client.sendall(b"ping")
print(peer.recv(10), peer.sendmsg([b"po", b"ng"]), client.recvmsg(10), peer.getpeername())
client.shutdown(socket.SHUT_WR)
[s.close() for s in (client, peer, server)]
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("127.0.0.1", 0))
udp.sendto(b"dgram", udp.getsockname())
print(udp.recvfrom(100))
socket.send_fds(a, [b"fd"], [0, 1])
print(socket.recv_fds(b, 100, 2))
r, w = os.pipe()
print(select.select([r], [w], [], 0.01))
p = select.poll()
p.register(r, select.POLLIN)
print(p.poll(5), os.write(w, b"x"), p.poll(5), select.select([r], [], [r], None))
e = select.epoll()
e.register(r, select.EPOLLIN)
print(e.poll(0.1), e.unregister(r), e.close())
signal.signal(signal.SIGUSR1, lambda *_: None)
os.kill(os.getpid(), signal.SIGUSR1)
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.01)
time.sleep(0.02)


async def main():
    await asyncio.gather(*[asyncio.sleep(0.001 * n) for n in range(5)])
    child = await asyncio.create_subprocess_exec("true")
    await child.wait()


asyncio.run(main())
db = sqlite3.connect("db.sqlite")
db.execute("create table t (a)")
[db.execute("insert into t values (?)", (n,)) for n in range(10)]
db.commit()
print(db.execute("select sum(a) from t").fetchall(), db.close())
f = open("mapped", "w+b")
f.write(b"x" * 8192)
f.flush()
m = mmap.mmap(f.fileno(), 8192)
m[0] = 1
m.flush()
m.close()
fcntl.lockf(f, fcntl.LOCK_EX)
fcntl.flock(f, fcntl.LOCK_SH)
f.truncate(10)
os.fsync(f.fileno())
os.posix_fallocate(f.fileno(), 0, 100)
f.close()
print(resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0)
print(os.uname().sysname, os.sched_getaffinity(0), os.statvfs("/").f_bsize, os.getgroups(), os.getresuid())
print(os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), os.waitid, signal.sigtimedwait)
pid = os.fork()
if pid == 0:
    os._exit(7)
print(os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT), os.wait4(pid, 0)[1])
for ask in (
    # Files in memory have no attributes of users before 6.6.
    lambda: os.setxattr("mapped", "user.a", b"value"),
    lambda: print(os.getxattr("mapped", "user.a")),
    lambda: print(os.listxattr("mapped")),
):
    with contextlib.suppress(OSError):
        ask()
os.umask(0o22)
os.symlink("x", "sym")
os.readlink("sym")
os.utime("mapped")
os.chmod("mapped", 0o600)
os.rename("mapped", "moved")
os.chdir("/")

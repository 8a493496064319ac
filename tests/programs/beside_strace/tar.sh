# Archives: made, listed, compared, extracted.
set -e
mkdir s o; cp -r /etc/apt /etc/default s/; ln -s x s/l
tar cf a.tar s; tar tf a.tar; tar xf a.tar -C o; tar czf a.tgz s; tar xzf a.tgz -C o; tar rf a.tar a.tgz
tar df a.tar s || true; tar cf - s | tar xf - -C o; tar -g inc -cf c.tar s; tar x -f nowhere || true

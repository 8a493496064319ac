# A repository, its copies, and what people do with them.
set -e
export HOME=$PWD GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git init -q r; cd r; for i in 1 2 3 4 5; do seq 1 $((i * 50)) > f$i; done; mkdir d; cp f1 d/g
git add .; git commit -qm one; echo x >> f1; git diff; git status; git commit -qam two; git log -p
git branch b; git checkout -q b; echo y > n; git add n; git commit -qm three; git checkout -q -; git merge -q b
git tag v1; git gc -q; cd ..; git clone -q r c; cd c; git log --oneline; git grep 49; git mv f2 f7; git commit -qm m
git push -q origin HEAD:z

# Keys of each kind, signatures and lists of known hosts.
set -e
ssh-keygen -q -t ed25519 -N '' -f k; ssh-keygen -lf k.pub; ssh-keygen -q -t ecdsa -N pw -f e; ssh-keygen -y -f k
ssh-keygen -q -p -P pw -N '' -f e; ssh-keygen -q -t rsa -b 1024 -N '' -f r
echo "a $(cat k.pub)" > known; ssh-keygen -F a -f known; ssh-keygen -H -f known; ssh-keygen -R a -f known
ssh-keygen -s k -I id -n u e.pub; ssh-keygen -L -f e-cert.pub; echo x > m; ssh-keygen -Y sign -f k -n file m
ssh-keygen -q -t ed25519 -N '' -f k < /dev/null || true; ssh-keygen -lf /nowhere || true

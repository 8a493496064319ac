# Asks the kernel by netlink, and is refused.
set -e
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

# Runs in the system before it boots.
set -eu
units=/etc/systemd/system
cp /life/life.service $units/life.service
mkdir -p $units/multi-user.target.wants
ln -s ../life.service $units/multi-user.target.wants/life.service
rm $units/multi-user.target.wants/nginx.service
for unit in serial-getty@ttyS0.service getty@tty1.service apt-daily.timer apt-daily-upgrade.timer; do
    ln -s /dev/null $units/$unit
done
# A machine in software is some ten times slower.
mkdir -p /etc/systemd/system.conf.d
printf '[Manager]\nDefaultTimeoutStartSec=600s\nDefaultTimeoutStopSec=300s\n' >/etc/systemd/system.conf.d/slow.conf
# As a system has them that has never booted.
: >/etc/machine-id
echo service >/etc/hostname

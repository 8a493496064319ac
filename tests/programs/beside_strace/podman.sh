# Containers and images, of which there are none.
set -e
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

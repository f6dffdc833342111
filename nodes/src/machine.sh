# The first process of a node. Arguments: the node's name, its directory.
set -eu
mount -t tmpfs -o mode=755 tmpfs /run
# What a kubelet changes of the kernel is not the node's alone: it changes files instead.
for key in kernel/panic kernel/panic_on_oops kernel/keys/root_maxbytes kernel/keys/root_maxkeys \
  vm/overcommit_memory vm/panic_on_oom; do
  mkdir -p "$2/sysctl/${key%/*}"
  cat "/proc/sys/$key" >"$2/sysctl/$key"
  mount --bind "$2/sysctl/$key" "/proc/sys/$key"
done
# Each start of this process is a boot.
cat /proc/sys/kernel/random/uuid >"$2/boot_id"
mount --bind "$2/boot_id" /proc/sys/kernel/random/boot_id
# Paths that a kubelet and CNI plugins use whatever they are told.
for dir in /var/log /var/lib/kubelet /var/lib/cni; do
  mkdir -p "$2/own$dir" "$dir"
  mount --bind "$2/own$dir" "$dir"
done
mkdir -p /run/lock
hostname "$1"
ip link set lo up
echo 1 >/proc/sys/net/ipv4/ip_forward
: >"$2/ready"
# Whatever is left by a process that ends becomes a child of this one.
while :; do sleep 86400 & wait; done

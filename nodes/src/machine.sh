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
mkdir -p "$2/log" /run/lock
mount --bind "$2/log" /var/log
hostname "$1"
ip link set lo up
echo 1 >/proc/sys/net/ipv4/ip_forward
: >"$2/ready"
# Whatever is left by a process that ends becomes a child of this one.
while :; do sleep 86400 & wait; done

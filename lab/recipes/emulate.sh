# Runs a command so that programs for arm64 run in it, under qemu. Usage: emulate.sh COMMAND…; /qemu holds qemu-aarch64.
# It needs a user namespace of its own: from Linux 6.7 on each can have its own table of binfmt_misc, and nothing is
# registered for the rest of the host.

mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc || {
  echo "error: this kernel has no binfmt_misc for a user namespace; Linux 6.7 and later have" >&2
  echo "hint: make package ARCHITECTURES=amd64" >&2
  exit 69
}
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
# F: the kernel opens qemu now, so that it also runs where the path does not lead to it.
printf '%s' ":qemu-aarch64:M::$magic:$mask:/qemu/qemu-aarch64:F" >/proc/sys/fs/binfmt_misc/register
# In a user namespace, buildah and skopeo take the driver from this file and not from STORAGE_DRIVER.
export CONTAINERS_STORAGE_CONF=/tmp/storage.conf
cat >"$CONTAINERS_STORAGE_CONF" <<'S'
[storage]
driver = "vfs"
graphroot = "/var/lib/containers/storage"
runroot = "/run/containers/storage"
S
exec "$@"

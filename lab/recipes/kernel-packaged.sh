# Unpacks the newest cloud kernel of Debian's backports whose version begins with SERIES; it is not installed, so no boot
# loader or initramfs tool comes along. Environment: SERIES, empty for any. In: /tools/busybox    Out: /out/vmlinuz, /out/config, /out/initrd, /out/modules/<release>
cd /build
newest=$(apt-cache pkgnames "linux-image-$SERIES" | grep -E '^linux-image-[0-9.]+\+deb13-cloud-amd64$' | sort -V | tail -n 1)
[ -n "$newest" ] || { echo "Debian's backports have no cloud kernel $SERIES"; exit 1; }
# Not what these depend on: for an older kernel that may be gone, and nothing of it is needed to boot.
release=${newest#linux-image-}
mapfile -t packages < <(apt-cache pkgnames | grep -E "^linux-(image|modules|binary|base)-${release//[.+]/.}\$" || true)
mkdir -p debs; chmod 777 debs
(cd debs && apt-get -o APT::Sandbox::User=root -t trixie-backports download "${packages[@]}")
rm -rf tree; mkdir tree
for package in debs/*.deb; do dpkg-deb -x "$package" tree; done

release=$(basename "$(echo tree/usr/lib/modules/*)")
config=$(find tree -name 'config*' -path "*$release*" -type f | head -n 1)
grep -q '^CONFIG_SCHED_CLASS_EXT=y' "$config" || { echo "$release has no sched_ext"; exit 1; }
cp "$(find tree -name 'vmlinuz*' -type f | head -n 1)" /out/vmlinuz
cp "$config" /out/config
mkdir /out/modules; cp -a "tree/usr/lib/modules/$release" /out/modules/
ln -s usr/lib tree/lib
depmod -b /build/tree "$release"; cp tree/usr/lib/modules/"$release"/modules.* "/out/modules/$release/"

# The initramfs does one thing: mount the disk. Modules that are built in show up as "builtin" and need nothing.
rm -rf initramfs; mkdir -p initramfs/{bin,proc,dev,mnt,modules}
cp /tools/busybox initramfs/bin/
number=10
for module in virtio_pci virtio_blk ext4; do
  while read -r kind file _; do
    [ "$kind" = insmod ] || continue
    number=$((number + 1))
    case $file in *.xz) xz -dc "$file" ;; *.zst) zstd -qdc "$file" ;; *) cat "$file" ;; esac >"initramfs/modules/$number.ko"
  done < <(modprobe -d /build/tree -S "$release" --show-depends $module)
done
cat >initramfs/init <<'INIT'
#!/bin/busybox sh
b=/bin/busybox
$b mount -t devtmpfs dev /dev; $b mount -t proc proc /proc
for module in /modules/*.ko; do $b insmod "$module"; done
tries=0; while [ ! -e /dev/vda ] && [ $tries -lt 100 ]; do $b sleep 0.1; tries=$((tries + 1)); done
$b mount -t ext4 /dev/vda /mnt
exec $b switch_root /mnt /sbin/lab-init
INIT
chmod +x initramfs/init
(cd initramfs && find . | cpio -o -H newc) | gzip >/out/initrd

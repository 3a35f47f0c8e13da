# Makes the disk of the lab's machine from a Debian root folder.
# Environment: LAYER_MB. In: /node (root folder with packages), /lab-files/node, /images/{registry,pause.tar}, /sked (OCI layout), /fixtures, /packages, /modules/*    Out: /out/disk.img, /out/blank.img, /out/key, /out/python
rm -rf /node/usr/share/{doc,locale,man,info} /node/var/lib/{docker,containerd,containers}
cp -r /lab-files/node/etc/. /node/etc/
install -m 755 /lab-files/node/sbin/* /node/usr/sbin/
# These come with a layer (lab/layers.py); until then the links lead nowhere.
ln -sfn /opt/layers/node/bin/kubelet /node/usr/local/bin/kubelet
ln -sfn /opt/layers/node/cni /node/usr/lib/cni
mkdir -p /node/usr/lib/modules /node/var/lib/registry
cp -a /modules/*/. /node/usr/lib/modules/
cp -a /images/registry/. /node/var/lib/registry/
# For tests of the kernel that need no container: starting one takes seconds under emulation.
install -D -m 755 -t /node/opt/fixtures /fixtures/scx_*
# What schedctl stands on, compiled here and not under emulation.
rm -rf /node/opt/schedkit; mkdir -p /node/opt/schedkit
cp -r /packages /node/opt/schedkit/packages
chroot /node python3 -m compileall -q /opt/schedkit/packages || [ $? = 1 ] # some packages carry templates that are no Python
# The machine's Python, with which the host compiles this tree's source for it (lab/schedctl.py).
rm -rf /out/python; mkdir /out/python
(cd /node && cp -a --parents "usr/bin/$(readlink usr/bin/python3)" usr/lib/python3.* -t /out/python)
(cd /node && cp -aL --parents usr/lib/x86_64-linux-gnu/{ld-linux-x86-64.so.2,libc.so.6,libm.so.6,libz.so.1,libexpat.so.1} -t /out/python)
ln -s "$(readlink /node/usr/bin/python3)" /out/python/usr/bin/python3
echo 'nameserver 10.0.2.3' >/node/etc/resolv.conf
printf '127.0.0.1 localhost lab\n10.0.2.2 host\n' >/node/etc/hosts
rm -f /node/usr/sbin/policy-rc.d

# The key by which the host enters. The machine listens on the host's loopback only.
cp /build/key /build/key.pub /out/
chmod 600 /out/key
install -d -m 700 /node/root/.ssh
install -m 600 /build/key.pub /node/root/.ssh/authorized_keys

# What would cost seconds under emulation at every first boot is done here: host keys, and the import of
# images: the sandbox, and the layer that all versions of sked share, which takes a minute to pull.
mkdir -p /node/etc/dropbear
[ -e /node/etc/dropbear/dropbear_ed25519_host_key ] || chroot /node dropbearkey -t ed25519 -f /etc/dropbear/dropbear_ed25519_host_key
mount -t proc proc /node/proc; mount --rbind /sys /node/sys; mount --rbind /dev /node/dev
mount -t tmpfs tmpfs /node/run; mount -t tmpfs tmpfs /node/tmp
# As systemd finds a machine that is its own: Debian's units as their packages enable them, and the lab's.
chroot /node systemctl enable podman.socket lab-network lab-ssh lab-registry lab-ready
chroot /node systemctl mask docker-registry systemd-logind serial-getty@ttyS0 # nobody logs in; the registry is lab-registry
chroot /node systemd-machine-id-setup # without an identity every start would be a first one
cp /images/pause.tar /node/tmp/
tar -C /sked -cf /node/tmp/sked.tar .
chroot /node bash -euc '
  containerd >/tmp/containerd.log 2>&1 & pid=$!
  for _ in $(seq 100); do ctr version >/dev/null 2>&1 && break; sleep 0.1; done
  ctr -n k8s.io images import /tmp/pause.tar || { cat /tmp/containerd.log; exit 1; }
  ctr -n k8s.io images import --digests --base-name localhost:5000/sked-base /tmp/sked.tar || { cat /tmp/containerd.log; exit 1; }
  ctr -n k8s.io images ls -q | grep -x localhost:5000/pause:1
  ctr -n k8s.io images ls -q | grep -q ^localhost:5000/sked-base@
  kill $pid; wait $pid || true'
umount -R /node/proc /node/sys /node/dev /node/run /node/tmp

rm -f /out/disk.img; truncate -s 8G /out/disk.img; truncate -s "${LAYER_MB}M" /out/blank.img
mkfs.ext4 -q -d /node -O ^has_journal -m 0 /out/disk.img

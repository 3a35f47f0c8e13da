# Builds the lab's 6.12 kernel: all built in, so it boots without modules and without an initramfs.
# In: /lab-files/kernel-6.12.config    Out: /out/vmlinuz, /out/config
cd /build
if [ ! -e linux/.unpacked ]; then
  rm -rf linux; mkdir linux
  tar -xf /usr/src/linux-source-6.12.tar.xz -C linux --strip-components 1
  touch linux/.unpacked
fi
cd linux
grep -E '^(# )?CONFIG_' /lab-files/kernel-6.12.config >../wanted.config
make tinyconfig
scripts/kconfig/merge_config.sh -m .config ../wanted.config
make olddefconfig
# Kconfig drops in silence what it finds impossible; here that is an error.
if not_taken=$(grep -vxFf .config ../wanted.config); then echo "not taken:"; echo "$not_taken"; exit 1; fi
make -j"$(nproc)" bzImage
cp arch/x86/boot/bzImage /out/vmlinuz
cp .config /out/config

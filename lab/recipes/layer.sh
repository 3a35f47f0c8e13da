# Packs /content as a disk that a machine mounts. Environment: SIZE_MB. Out: /out/layer.img
truncate -s "${SIZE_MB}M" /out/layer.img
mkfs.ext4 -q -d /content -O ^has_journal -m 0 /out/layer.img

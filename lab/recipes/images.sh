# Builds one image and pushes it. Usage: images.sh "DESTINATION…" "BASE…" [BUILD OPTIONS…]
# /build holds the Containerfile and gets the pushed image's digest, /context is what it copies from, /bases holds bases.
# A build leaves no trace but what it pushes: buildah's storage is a folder that goes away afterwards.

destinations=$1 bases=$2
shift 2

export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot TMPDIR=/var/lib/containers

# buildah insists on finding its network helper even where, as here, the host's network is used and it never runs.
export CONTAINERS_CONF_OVERRIDE=/tmp/containers.conf
install -D /bin/false /tmp/helpers/netavark
printf '[engine]\nhelper_binaries_dir = ["/tmp/helpers"]\n' >"$CONTAINERS_CONF_OVERRIDE"

for base in $bases; do
  skopeo copy --quiet "oci:/bases/$base" "containers-storage:localhost/schedkit-lab/$base:latest"
done
# A fixed time makes the same files the same image, so that versions share layers and digests are steady.
# Limits stay as they are: raising them, as buildah would, is not every root's to do.
buildah build --network host --timestamp 0 --tag localhost/built --file /build/Containerfile \
  --ulimit "nofile=$(ulimit -Sn):$(ulimit -Hn)" --ulimit "nproc=$(ulimit -Su):$(ulimit -Hu)" "$@" /context
for destination in $destinations; do
  buildah push --quiet --tls-verify=false --digestfile /build/digest localhost/built "$destination"
done

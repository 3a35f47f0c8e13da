# containerd, its shim for runc, and ctr, from their Go module. Environment: VERSION (v2.x.y).
mkdir -p /out/bin
module=github.com/containerd/containerd/${VERSION%%.*}
folder=$(go mod download -json "$module@$VERSION" | sed -n 's/^\t"Dir": "\(.*\)",\?$/\1/p')
rm -rf /build/source
cp -r "$folder" /build/source # go writes go.sum there
cd /build/source
go build -v -trimpath -tags "no_btrfs no_devmapper no_zfs no_aufs no_cri no_tracing" \
    -ldflags "-s -w -X $module/version.Version=$VERSION" \
    -o /out/bin/ ./cmd/containerd ./cmd/containerd-shim-runc-v2 ./cmd/ctr
/out/bin/containerd --version | grep -F " $VERSION "

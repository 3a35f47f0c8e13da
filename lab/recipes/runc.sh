# runc from its Go module, static: it runs on the host, whose C library is another. Environment: VERSION (v1.x.y).
mkdir -p /out/bin
module=github.com/opencontainers/runc
folder=$(go mod download -json "$module@$VERSION" | sed -n 's/^\t"Dir": "\(.*\)",\?$/\1/p')
rm -rf /work/source
cp -r "$folder" /work/source
cd /work/source
# What runs before Go's own start is C.
CGO_ENABLED=1 go build -v -trimpath -tags "netgo osusergo" \
    -ldflags "-s -w -X main.version=${VERSION#v} -extldflags -static" -o /out/bin/runc .
/out/bin/runc --version | grep -F "${VERSION#v}"

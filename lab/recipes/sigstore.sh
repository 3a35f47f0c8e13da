# The virtual sigstore of lab/fixtures/sigstore (bound to /fixtures), and a real transparency log: Rekor's second series,
# which keeps its entries in files. Environment: REKOR (v2.x.y).
mkdir -p /out/bin
rm -rf /build/source
cp -r /fixtures /build/source
cd /build/source
go mod edit -require "github.com/sigstore/rekor-tiles/v2@$REKOR"
go build -v -trimpath -ldflags "-s -w" -o /out/bin/virtual-sigstore .
go build -v -trimpath -ldflags "-s -w" -o /out/bin/rekor-server github.com/sigstore/rekor-tiles/v2/cmd/rekor-server/posix
/out/bin/rekor-server serve --help | grep -e --storage-dir

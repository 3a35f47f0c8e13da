# The virtual sigstore of lab/fixtures/sigstore (bound to /fixtures), and a real transparency log: Rekor's second series,
# which keeps its entries in files. Environment: MODULES.
. /recipes/go-module.sh
mkdir -p virtual-sigstore
cp /fixtures/*.go virtual-sigstore/
go build -v -trimpath -ldflags "-s -w" -o /out/bin/virtual-sigstore ./virtual-sigstore
go build -v -trimpath -ldflags "-s -w" -o /out/bin/rekor-server github.com/sigstore/rekor-tiles/v2/cmd/rekor-server/posix
/out/bin/rekor-server serve --help | grep -e --storage-dir

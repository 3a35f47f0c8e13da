# cosign from its Go module. Environment: VERSION (v3.x.y), MODULES.
. /recipes/go-module.sh
go build -v -trimpath -ldflags "-s -w -X sigs.k8s.io/release-utils/version.gitVersion=$VERSION" \
    -o /out/bin/cosign "github.com/sigstore/cosign/${VERSION%%.*}/cmd/cosign"
/out/bin/cosign version 2>/dev/null | grep -F "$VERSION"

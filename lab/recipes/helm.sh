# helm from its Go module. Environment: VERSION (v4.x.y), MODULES.
. /recipes/go-module.sh
module=helm.sh/helm/v4
go build -v -trimpath -ldflags "-s -w -X $module/internal/version.version=$VERSION" -o /out/bin/helm "$module/cmd/helm"
/out/bin/helm version --template '{{.Version}}' | grep -xF "$VERSION"

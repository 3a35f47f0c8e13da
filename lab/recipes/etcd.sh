# etcd from its Go module. Environment: VERSION, MODULES.
. /recipes/go-module.sh
go build -v -trimpath -ldflags "-s -w" -o /out/bin/etcd go.etcd.io/etcd/server/v3
/out/bin/etcd --version | grep -xF "etcd Version: ${VERSION#v}"

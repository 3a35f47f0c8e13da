# Makes /build/source a Go module that requires MODULES (module@version …) and goes there; the recipes of Go programs read this.
mkdir -p /build/source /out/bin
cd /build/source
rm -f go.mod go.sum

# MODULE@VERSION: the folder of its source
source_of() { go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",\?$/\1/p'; }

# The go.mod of Kubernetes replaces the staging modules by folders, which exist only in its own repository: a consumer must
# map them back to their releases, v0.x.y.
kubernetes=$(tr ' ' '\n' <<<"$MODULES" | grep '^k8s.io/kubernetes@')
folder=$(source_of "$kubernetes")
{
    echo "module lab"
    grep '^go ' "$folder/go.mod"
    for module in $MODULES; do echo "require ${module/@/ }"; done
    sed -n "s|^[[:space:]]*\(k8s.io/[^ ]*\) => ./staging.*|replace \1 => \1 v0.${kubernetes#*@v1.}|p" "$folder/go.mod"
} >go.mod

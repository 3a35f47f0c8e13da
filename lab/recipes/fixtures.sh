# Compiles the fixture schedulers: one source, a static binary for each way a scheduler can behave.
# /fixtures holds the sources, /out gets the binaries.

multiarch=$(gcc -print-multiarch)
cd "$(mktemp -d)"

# BINARY OPS_NAME BEHAVIOUR TIMEOUT_MS [FLAGS…]
scheduler() {
  local binary=$1 parameters=("-DOPS_NAME=\"$2\"" "-DBEHAVIOUR=$3" "-DTIMEOUT_MS=$4")
  shift 4
  clang-19 -O2 -g -target bpf -mcpu=v3 -Wall -Wextra -Werror -Wno-unused-parameter "${parameters[@]}" "$@" \
    -I"/usr/include/$multiarch" -c /fixtures/scheduler.bpf.c -o scheduler.bpf.o
  bpftool gen skeleton scheduler.bpf.o name scheduler >scheduler.skel.h
  gcc -O2 -static -s -Wall -Wextra -Werror -D_GNU_SOURCE "${parameters[@]}" -I. -o "/out/$binary" \
    /fixtures/loader.c -lbpf -lelf -lz -lzstd
}

scheduler scx_fifo-v1 schedkit_fifo FAITHFUL 30000
scheduler scx_fifo-v2 schedkit_fifo2 FAITHFUL 30000
scheduler scx_stall-v1 schedkit_stall STALLING 3000 -DSTALLS
scheduler scx_reject-v1 schedkit_reject FAITHFUL 30000 -DREFUSED
scheduler scx_idle-v1 schedkit_idle IDLE 30000
scheduler scx_stubborn-v1 schedkit_stubborn STUBBORN 30000
scheduler scx_mortal-v1 schedkit_mortal MORTAL 30000

gcc -O2 -static -s -Wall -Wextra -Werror -o /out/pause-1 /fixtures/pause.c

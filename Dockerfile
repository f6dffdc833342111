# syntax=docker/dockerfile:1
#
# One static binary on an empty image: no shell, no libc, no package to keep up to date.
#
#   docker build --tag registry.example.com/carillon:0.1.0 .
#
# Optional: --build-arg VERSION=… --build-arg REVISION="$(git rev-parse HEAD)" for the labels,
# --build-arg RUST_VERSION=… to build with another toolchain, --platform linux/amd64,linux/arm64 with buildx.

# The same version as rust-toolchain.toml.
ARG RUST_VERSION=1.95.0

# The Alpine variant is musl itself, so the host's target is already the static one: <arch>-unknown-linux-musl.
FROM docker.io/library/rust:${RUST_VERSION}-alpine AS build
ARG RUST_VERSION
# Otherwise rust-toolchain.toml would make rustup fetch clippy and rustfmt, which nothing here runs.
ENV RUSTUP_TOOLCHAIN=${RUST_VERSION}
# No incremental state, no network retries that hide a failure, no absolute paths of this image in the binary.
ENV CARGO_INCREMENTAL=0 \
    RUSTFLAGS="-C target-feature=+crt-static -C strip=debuginfo --remap-path-prefix=/src=. --remap-path-prefix=/usr/local/cargo=cargo"
# ring compiles C and assembler.
RUN apk add --no-cache gcc musl-dev
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,target=/src/target,sharing=locked \
    target="$(uname -m)-unknown-linux-musl" \
    && cargo build --locked --release --target "$target" --package carillon-operator --bin carillon \
    && install -D -m 0555 "target/$target/release/carillon" /out/carillon
# A binary that asks for a dynamic loader would not start on an empty image: fail here instead.
RUN apk add --no-cache binutils \
    && ! readelf --program-headers /out/carillon | grep -q INTERP \
    && /out/carillon --version

FROM scratch
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="carillon" \
      org.opencontainers.image.description="Work that must happen on every node, on time, and exactly once" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY LICENSE /LICENSE
# The CA of the API server is mounted into the pod, so no certificates are needed here.
COPY --from=build /out/carillon /carillon
# By number: there is no /etc/passwd. The same as in the chart.
USER 65532:65532
# Metrics and probes. The debug pages listen on loopback only.
EXPOSE 8080
ENTRYPOINT ["/carillon"]

# docker buildx bake: the image for both processors, with a bill of materials and its provenance.
variable "NAME" { default = "pyzk-server" }
variable "VERSION" { default = "0.1.0" }

target "default" {
  platforms = ["linux/amd64", "linux/arm64"]
  tags = ["${NAME}:${VERSION}", "${NAME}:latest"]
  labels = { "org.opencontainers.image.version" = VERSION }
  attest = ["type=sbom", "type=provenance,mode=max"]
}

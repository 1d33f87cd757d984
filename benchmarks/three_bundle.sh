#!/bin/sh
# Bundles the parts of three.js that the viewer uses into sami_runtime/recording/page/three.min.js. Needs Node.js and npm.
set -eu
page=$(cd "$(dirname "$0")/.." && pwd)/sami_runtime/recording/page/three.min.js
folder=$(mktemp -d)
cd "$folder"
npm install --silent three@0.187.0 esbuild@0.28.2 >/dev/null
cat > entry.js <<'END'
export { WebGLRenderer, Scene, PerspectiveCamera, HemisphereLight, DirectionalLight, Mesh, Group, MeshStandardMaterial } from "three";
export { BoxGeometry, SphereGeometry, CylinderGeometry, CapsuleGeometry, PlaneGeometry, GridHelper, Color, Vector3, Box3 } from "three";
export { OrbitControls } from "three/examples/jsm/controls/OrbitControls.js";
END
npx esbuild entry.js --bundle --minify --format=iife --global-name=THREE --outfile=three.js --log-level=warning
{
    echo "/*! three.js 0.187.0, bundled by benchmarks/three_bundle.sh"
    cat node_modules/three/LICENSE
    echo "*/"
    sed 's|</script|<\\/script|g' three.js
} > "$page"
rm -rf "$folder"

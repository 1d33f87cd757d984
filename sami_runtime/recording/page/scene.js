// The robot: the shapes of its links, at the links' poses of a tick. Drag to look around, scroll to zoom.
class Robot {
  constructor(scene, place) {
    this.size = scene.links.length * 7; this.links = []; this.onmove = () => {};
    place.hidden = false;
    try {
      this.renderer = new THREE.WebGLRenderer({ antialias: true, alpha: true, preserveDrawingBuffer: true });
    } catch { place.append(make("p", { className: "hint", textContent: "The robot is not shown: this browser has no WebGL." })); return; }
    const { renderer } = this;
    renderer.shadowMap.enabled = true;
    renderer.domElement.setAttribute("role", "img");
    renderer.domElement.setAttribute("aria-label", "The robot at the chosen time");
    place.append(renderer.domElement);
    this.world = new THREE.Scene();
    this.camera = new THREE.PerspectiveCamera(36, 2, .05, 300);
    this.camera.up.set(0, 0, 1);
    this.sun = new THREE.DirectionalLight(0xffffff, 2.2);
    this.sun.castShadow = true;
    this.sun.shadow.mapSize.set(2048, 2048);
    this.world.add(new THREE.HemisphereLight(0xffffff, 0x8890a0, 1.6), this.sun, this.sun.target);
    for (const name of scene.links) { const link = new THREE.Group(); link.name = name; this.links.push(link); this.world.add(link); }
    for (const [link, kind, size, pose, rgba] of scene.shapes) this.links[link].add(this.shape(kind, size, pose, rgba));
    this.looks = new THREE.OrbitControls(this.camera, renderer.domElement);
    this.looks.enableDamping = false;
    this.looks.addEventListener("change", () => this.onmove());
  }
  shape(kind, [x, y, z], pose, [r, g, b, a]) {
    const material = new THREE.MeshStandardMaterial({ color: new THREE.Color().setRGB(r, g, b, "srgb"), roughness: .7, metalness: .05, transparent: a < 1, opacity: a });
    let geometry;
    if (kind === "box") geometry = new THREE.BoxGeometry(2 * x, 2 * y, 2 * z);
    else if (kind === "plane") { geometry = new THREE.PlaneGeometry(400, 400); material.color.set(0x9aa3b2); material.polygonOffset = true; material.polygonOffsetFactor = material.polygonOffsetUnits = 2; }
    else if (kind === "capsule") { geometry = new THREE.CapsuleGeometry(x, 2 * z, 8, 24); geometry.rotateX(Math.PI / 2); }
    else if (kind === "cylinder") { geometry = new THREE.CylinderGeometry(x, x, 2 * z, 40); geometry.rotateX(Math.PI / 2); }
    else { geometry = new THREE.SphereGeometry(1, 32, 20); geometry.scale(x, y, z); }
    const mesh = new THREE.Mesh(geometry, material);
    mesh.position.set(...pose.slice(0, 3)); mesh.quaternion.set(...pose.slice(3));
    mesh.castShadow = kind !== "plane" && a === 1; mesh.receiveShadow = true;
    mesh.userData.floor = kind === "plane";
    if (kind === "plane") { const grid = new THREE.GridHelper(200, 200, 0x5d6675, 0x7d8698); grid.rotateX(Math.PI / 2); grid.material.toneMapped = false; mesh.add(grid); this.floor = mesh; }
    return mesh;
  }
  // Points the camera at the whole robot, from the front and above.
  frame() {
    const box = new THREE.Box3(), part = new THREE.Box3();
    this.world.updateMatrixWorld(true);
    this.world.traverse(object => { if (object.isMesh && !object.userData.floor) box.union(part.setFromObject(object)); });
    const middle = box.getCenter(new THREE.Vector3()), far = .82 * box.getSize(new THREE.Vector3()).length();
    this.looks.target.copy(middle);
    this.camera.position.set(middle.x + .75 * far, middle.y - 1.1 * far, middle.z + .55 * far);
    this.reach = far;
    this.looks.update();
  }
  draw(poses, at) {
    if (!this.renderer || poses.length < (at + 1) * this.size) return;
    const from = at * this.size;
    this.links.forEach((link, i) => { const p = from + 7 * i; link.position.set(poses[p], poses[p + 1], poses[p + 2]); link.quaternion.set(poses[p + 3], poses[p + 4], poses[p + 5], poses[p + 6]); });
    const canvas = this.renderer.domElement, { width, height } = canvas.getBoundingClientRect();
    if (!width) return;
    if (!this.reach) this.frame();
    const moving = this.links[1] || this.links[0], to = moving.position;
    if (this.followed) {  // the camera follows a robot that moves away
      const passed = to.clone().sub(this.followed).setZ(0);
      if (passed.length() > 0) { this.camera.position.add(passed); this.looks.target.add(passed); }
    }
    this.followed = to.clone();
    if (this.floor) { this.floor.position.x = Math.round(to.x); this.floor.position.y = Math.round(to.y); }  // endless
    this.sun.position.copy(this.looks.target).add(new THREE.Vector3(-.5, -.7, 1.8).multiplyScalar(this.reach));
    this.sun.target.position.copy(this.looks.target);
    const view = this.sun.shadow.camera;
    view.left = view.bottom = -this.reach; view.right = view.top = this.reach; view.far = 6 * this.reach; view.updateProjectionMatrix();
    const scale = Math.min(2, devicePixelRatio || 1), wide = Math.round(width * scale), high = Math.round(height * scale);
    if (canvas.width !== wide || canvas.height !== high) { this.renderer.setPixelRatio(scale); this.renderer.setSize(width, height, false); this.camera.aspect = width / height; this.camera.updateProjectionMatrix(); }
    this.renderer.render(this.world, this.camera);
  }
}

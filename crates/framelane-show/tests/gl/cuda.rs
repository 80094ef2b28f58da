//! What only CUDA can show: no copy to the host, nothing left behind by what was refused, contexts of others.

use super::{Drawer, SIZE, Tensor, numbers, program, skip, start, test_device};
use framelane::device::Device;
use framelane::tensor::DType;
use framelane_show::Layout;
use framelane_show::gl::{GlBuffer, GlTexture, GlWay};

fn on_cuda() -> bool {
    if !test_device::on_cuda() {
        skip("FRAMELANE_TEST_DEVICE names no CUDA device");
    }
    test_device::on_cuda()
}

#[test]
fn nothing_goes_through_the_host() {
    if !on_cuda() {
        return;
    }
    let Some((device, program)) = start() else { return };
    // What other tests left.
    let _ = device.cuda_context().unwrap().take_late_error();
    let stream = device.stream("producer").unwrap();
    let name = program.texture(SIZE.width, SIZE.height);
    let bytes = 4 * SIZE.width * SIZE.height;
    let pixels = program.buffer(&vec![0; bytes]);
    let mut texture = GlTexture::register(name, SIZE, &device).unwrap();
    let mut buffer = GlBuffer::register(pixels, bytes, &device).unwrap();
    for path in [texture.path(), buffer.path()] {
        assert!(path.starts_with("gl-shared (") && path.ends_with(", OpenGL)"), "{path}");
    }
    let tensor = Tensor::grey(&stream, SIZE, 3);
    stream.synchronize("test").unwrap();
    let before = device.counters();
    for _ in 0..50 {
        assert_eq!(texture.show(&stream, &tensor.picture()).unwrap(), GlWay::Shared);
        assert_eq!(buffer.show(&stream, &tensor.picture()).unwrap(), GlWay::Shared);
    }
    let after = device.counters();
    assert_eq!(
        (after.from_device, after.to_device, after.allocations, &after.cpu_waits),
        (before.from_device, before.to_device, before.allocations, &before.cpu_waits)
    );
    assert_eq!((texture.shown(), texture.host_copies(), buffer.host_copies()), (50, 0, 0));
    assert!(program.read_buffer(pixels, bytes) == [3, 3, 3, 255].repeat(SIZE.width * SIZE.height));
    drop((texture, buffer));
    assert_eq!(device.cuda_context().unwrap().take_late_error(), None);
}

/// S8: what the driver refuses leaves no error for the next call, nor for the next texture.
#[test]
fn a_refused_registration_leaves_no_error() {
    if !on_cuda() {
        return;
    }
    let Some((device, program)) = start() else { return };
    let context = device.cuda_context().unwrap();
    // What other tests left.
    let _ = context.take_late_error();
    let stream = device.stream("producer").unwrap();
    for round in 0..3 {
        let refused = super::program::register_nothing(context).unwrap_err();
        assert!(!refused.to_string().is_empty());
        let (tensor, expected) = numbers(&stream, DType::F32, Layout::Chw, 3);
        let name = program.texture(SIZE.width, SIZE.height);
        let mut texture = GlTexture::register(name, SIZE, &device).unwrap();
        assert_eq!(texture.show(&stream, &tensor.picture().range(0.0, 255.0)).unwrap(), GlWay::Shared);
        assert!(program.read_texture(name, SIZE.width, SIZE.height) == expected, "round {round}");
        // A format that CUDA may refuse: it is shown all the same, and the path says how.
        let name = program.texture_of(glow::SRGB8_ALPHA8, SIZE.width, SIZE.height);
        let mut other = GlTexture::register(name, SIZE, &device).unwrap();
        let way = other.show(&stream, &tensor.picture().range(0.0, 255.0)).unwrap();
        assert!(program.read_texture(name, SIZE.width, SIZE.height) == expected, "{}", other.path());
        assert_eq!(way == GlWay::Shared, other.path().starts_with("gl-shared ("), "{}", other.path());
        if round == 0 {
            println!("{}", other.path());
        }
        stream.synchronize("test").unwrap();
        drop((texture, other));
        assert_eq!(context.take_late_error(), None);
    }
}

/// S4: another driver draws: both are named, and the picture comes all the same.
#[test]
fn a_context_of_another_driver_gets_its_pictures_from_the_host() {
    if !on_cuda() {
        return;
    }
    let device = test_device::open(Device::host_checked, Device::cuda);
    let Some(program) = program(Drawer::Software) else { return };
    let stream = device.stream("producer").unwrap();
    let name = program.texture(SIZE.width, SIZE.height);
    let mut texture = GlTexture::register(name, SIZE, &device).unwrap();
    let path = texture.path().to_owned();
    let gpu = device.cuda_context().unwrap().info().name.clone();
    assert!(
        path.starts_with("host-upload (") && path.contains(&gpu) && path.contains("another one"),
        "{path}"
    );
    let before = device.counters();
    let (tensor, expected) = numbers(&stream, DType::F16, Layout::Hwc, 3);
    assert_eq!(texture.show(&stream, &tensor.picture().range(0.0, 255.0)).unwrap(), GlWay::Upload);
    assert!(program.read_texture(name, SIZE.width, SIZE.height) == expected);
    let after = device.counters();
    assert!(after.from_device > before.from_device, "the copy is counted");
    assert!(after.cpu_waits.contains_key("host-upload to OpenGL"), "the wait is counted");
    assert_eq!((texture.shown(), texture.host_copies()), (1, 1));
}

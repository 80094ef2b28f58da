//! The same under GLX, on an X server of our own.

use super::{SIZE, numbers, program::Program, share, skip, test_device};
use framelane::device::Device;
use framelane::tensor::DType;
use framelane_show::Layout;
use framelane_show::gl::GlTexture;

#[path = "../window/xvfb.rs"]
#[allow(dead_code, reason = "the window's tests use its other parts")]
mod xvfb;

#[test]
fn pictures_arrive_in_a_context_of_glx() {
    let server = match xvfb::Xvfb::start() {
        Ok(server) => server,
        Err(why) => return skip(why),
    };
    let program = match Program::glx(&server.display) {
        Ok(program) => program,
        Err(why) => return skip(why),
    };
    let device = test_device::open(Device::host_checked, Device::cuda);
    let stream = device.stream("producer").unwrap();
    let name = program.texture(SIZE.width, SIZE.height);
    let mut texture = GlTexture::register(name, SIZE, &device).unwrap();
    println!("{}", texture.path());
    let (tensor, expected) = numbers(&stream, DType::BF16, Layout::Chw, 3);
    let _ = texture.show(&stream, &tensor.picture().range(0.0, 255.0)).unwrap();
    assert!(program.read_texture(name, SIZE.width, SIZE.height) == expected);
    share(&device, &program);
    drop(texture);
    program.release();
    // The context goes before the server does.
    drop(program);
}

//! What is no texture, no buffer or no picture of its size: a sentence, and the next picture is shown.

use super::{Drawer, SIZE, Tensor, program, start, way};
use framelane::device::Device;
use framelane::frame::ImageSize;
use framelane::{Error, ErrorKind};
use framelane_show::gl::{GlBuffer, GlTexture, left_registered};

#[track_caller]
fn says<T: std::fmt::Debug>(result: Result<T, Error>, what: &str) {
    let error = result.unwrap_err();
    assert!(error.to_string().contains(what), "{error}");
    assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
}

#[test]
fn what_is_no_such_texture() {
    let Some((device, program)) = start() else { return };
    let ImageSize { width, height } = SIZE;
    let register = |name| GlTexture::register(name, SIZE, &device);
    says(register(0), "has no texture 0");
    says(register(4_000_000_000), "has no texture 4000000000");
    says(register(program.texture(width, height + 1)), "is 37×22, not 37×21");
    for format in [glow::R8, glow::RGBA16F, glow::RGB8] {
        says(register(program.texture_of(format, width, height)), "make it with GL_RGBA8");
    }
    says(register(program.cube()), "is not 2D");
    let gone = program.texture(width, height);
    program.delete_texture(gone);
    says(register(gone), "was deleted");
    assert_eq!(program.error(), 0);

    let (other, name) = (program.texture(width, height), program.texture(width, height));
    let (mut later, mut texture) = (register(other).unwrap(), register(name).unwrap());
    let stream = device.stream("producer").unwrap();
    let (good, wrong) =
        (Tensor::grey(&stream, SIZE, 7), Tensor::grey(&stream, ImageSize { width: 5, height: 5 }, 7));
    says(texture.show(&stream, &wrong.picture()), "a picture of 5×5 does not fit");
    says(
        texture.show(&stream, &good.picture().layout(framelane_show::Layout::Hwc).range(1.0, 1.0)),
        "is empty",
    );
    let elsewhere = Device::host();
    let theirs = elsewhere.stream("elsewhere").unwrap();
    says(texture.show(&theirs, &good.picture()), "not of stream \"elsewhere\"");
    program.delete_texture(other);
    says(later.show(&stream, &good.picture()), "was deleted");
    drop(later);
    program.release();
    says(texture.show(&stream, &good.picture()), "no OpenGL context is current");
    program.make_current();
    // The next call works.
    assert_eq!(texture.show(&stream, &good.picture()).unwrap(), way());
    assert!(program.read_texture(name, width, height) == [7, 7, 7, 255].repeat(width * height));
}

#[test]
fn what_is_no_such_buffer() {
    let Some((device, program)) = start() else { return };
    let (bytes, stream) = (4 * SIZE.width * SIZE.height, device.stream("producer").unwrap());
    says(GlBuffer::register(0, 4, &device), "has no buffer 0");
    let name = program.buffer(&vec![0; bytes]);
    says(GlBuffer::register(name, bytes + 1, &device), "are to be written");
    let mut buffer = GlBuffer::register(name, bytes - 1, &device).unwrap();
    let tensor = Tensor::grey(&stream, SIZE, 7);
    says(buffer.show(&stream, &tensor.picture()), "were registered");
    assert_eq!(program.read_buffer(name, bytes), vec![0; bytes]);
}

/// An error of the program's own, not asked for yet, is not taken for one of the picture's.
#[test]
fn an_error_that_was_pending_is_not_blamed_on_the_picture() {
    let Some((device, program)) = start() else { return };
    let stream = device.stream("producer").unwrap();
    let name = program.texture(SIZE.width, SIZE.height);
    program.go_wrong();
    let mut texture = GlTexture::register(name, SIZE, &device).unwrap();
    program.go_wrong();
    assert_eq!(texture.show(&stream, &Tensor::grey(&stream, SIZE, 3).picture()).unwrap(), way());
    program.finish();
}

/// Nothing dies where no context is current at the end; what stays registered with CUDA is counted.
#[test]
fn dropping_without_a_context_is_told() {
    let Some((device, program)) = start() else { return };
    let stream = device.stream("producer").unwrap();
    let name = program.texture(SIZE.width, SIZE.height);
    let mut texture = GlTexture::register(name, SIZE, &device).unwrap();
    let _ = texture.show(&stream, &Tensor::grey(&stream, SIZE, 3).picture()).unwrap();
    let before = left_registered();
    program.release();
    drop(texture);
    assert_eq!(left_registered() - before, u64::from(super::test_device::on_cuda()));
    program.make_current();
    assert!(
        program.read_texture(name, SIZE.width, SIZE.height)
            == [3, 3, 3, 255].repeat(SIZE.width * SIZE.height)
    );
}

/// A context of nobody's: the thread has none.
#[test]
fn a_thread_without_a_context_is_told() {
    let error = GlTexture::register(1, SIZE, &Device::host()).unwrap_err();
    assert!(error.to_string().contains("no OpenGL context is current on this thread"), "{error}");
    says(framelane_show::gl::GlContext::shared(), "no OpenGL context is current");
}

/// The host's tensors go to whichever GPU draws, and the path says so.
#[test]
fn the_hosts_tensors_take_the_way_of_the_host() {
    let Some(program) = program(Drawer::Any) else { return };
    let device = Device::host();
    let name = program.texture(SIZE.width, SIZE.height);
    let texture = GlTexture::register(name, SIZE, &device).unwrap();
    let path = texture.path();
    let ends = "OpenGL): pictures are made on the cpu";
    assert!(path.starts_with("host-upload (") && path.ends_with(ends), "{path}");
    let renderer = program.renderer();
    let first = renderer.split(['/', '(']).next().unwrap().trim();
    assert!(path.contains(first), "{path} does not name {renderer}");
}

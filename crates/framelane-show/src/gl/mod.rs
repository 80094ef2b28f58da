//! Tensors in the textures and buffers of a program that draws with OpenGL itself.
//!
//! The program keeps its window, its context and its loop, whatever it made them with. It registers a texture
//! ([`GlTexture`]) or a pixel buffer ([`GlBuffer`]) of its own once, and shows pictures in it:
//!
//! ```no_run
//! # fn main() -> framelane::Result<()> {
//! # use framelane::{device::{Device, Memory}, frame::ImageSize, tensor::{DType, TensorSpec}, TensorView};
//! # use framelane_show::{Picture, gl::GlTexture};
//! # let (name, size) = (1, ImageSize::new(1920, 1080)?);
//! let device = Device::cuda(0)?;
//! let stream = device.stream("producer")?;
//! let mut texture = GlTexture::register(name, size, &device)?; // RGBA8, in the context that is current here
//! println!("{}", texture.path()); // gl-shared (NVIDIA RTX 4090, OpenGL)
//! # let spec = TensorSpec::new(DType::F32, [3, 1080, 1920]);
//! # let tensor = device.alloc(spec.bytes(), Memory::Device)?;
//! texture.show(&stream, &Picture::new(TensorView::new(&tensor, 0, &spec)?))?;
//! // Draw with the texture as ever.
//! # Ok(()) }
//! ```
//!
//! # The two ways
//! - `gl-shared`: CUDA writes the texture or buffer where OpenGL has it. For a CUDA device that draws the context.
//! - `host-upload`: the picture is made, copied to the host if it is not there, waited for (by name, and counted:
//!   [`framelane::device::Counters::cpu_waits`]), and given to OpenGL through a pixel buffer. For tensors of the host,
//!   and for contexts of another GPU or another driver than CUDA's.
//!
//! Either way all that OpenGL is told after the call sees the picture. The first row of a picture is its top, and comes
//! first in memory: in a texture it is where `t` is 0.
//!
//! # Contexts and threads
//! Each call here wants the context current on its thread that the texture or buffer is of, or one that shares with it,
//! and so does dropping: without one a registration with CUDA stays until the process ends, which is logged and counted
//! ([`left_registered`]). A thread of its own, with a context of its own ([`GlContext::shared`]), keeps the program's loop
//! from even the call's own time. OpenGL's rule between contexts holds then: the program waits for a fence
//! (`glFenceSync`) of that thread's, and binds the texture again, before it draws what was shown there.

mod buffer;
mod context;
#[allow(unsafe_code, reason = "OpenGL's own calls")]
mod raw;
mod texture;
mod way;

pub use buffer::GlBuffer;
pub use context::{GlContext, GlCurrent};
pub use texture::GlTexture;
pub use way::{GlWay, left_registered};

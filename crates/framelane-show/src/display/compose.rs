//! Drawing panes into a target by compute: straight out of the slots' buffers, so that a picture is read once.
//!
//! By compute and not as triangles, because what draws pixels of triangles is narrow on GPUs made for computing, while
//! this runs on all of the others just as well.

use super::image;
use crate::gpu::{FORMAT, Gpu};
use crate::rect::{Placed, Rect};
use framelane::frame::ImageSize;
use framelane::{Error, ErrorKind, Result};

/// Colour around the picture, sRGB.
const BACKGROUND: [u8; 3] = [22, 24, 29];

/// Threads of a workgroup along each side, as in the shader.
const GROUP: u32 = 16;

/// What the shader is told; the layout is that of `compose.wgsl`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
struct Params {
    tile: [u32; 4],
    rect: [f32; 4],
    background: [f32; 4],
    after: Source,
    before: Source,
    split: u32,
    sharp: u32,
    pad: [u32; 2],
}

/// A picture in a buffer, counted in pixels.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Default, bytemuck::Pod, bytemuck::Zeroable)]
struct Source {
    size: [u32; 2],
    pitch: u32,
    start: u32,
}

impl Source {
    fn new(size: ImageSize, start: usize) -> Self {
        let pixels = |bytes: usize| (bytes / 4) as u32;
        Self {
            size: [size.width as u32, size.height as u32],
            pitch: pixels(image::pitch(size.width)),
            start: pixels(start),
        }
    }
}

/// What is drawn into a tile.
pub(super) struct Scene<'a> {
    pub pixels: &'a wgpu::Buffer,
    pub size: ImageSize,
    /// The picture before, and the byte where it begins.
    pub before: Option<(ImageSize, usize)>,
    pub placed: Placed,
    /// Magnified pixels keep their edges.
    pub sharp: bool,
    /// Where on the picture the divider is.
    pub split: Option<f32>,
}

/// The pipeline, one for all panes.
pub(super) struct Compose {
    layout: wgpu::BindGroupLayout,
    pipeline: wgpu::ComputePipeline,
    /// What is bound where there is no picture.
    nothing: wgpu::Buffer,
}

/// What panes are drawn into.
pub(crate) struct Target {
    pub texture: wgpu::Texture,
    pub view: wgpu::TextureView,
    pub size: ImageSize,
    pub extent: wgpu::Extent3d,
}

/// One pane's, or one empty place's, part of the drawing.
pub(super) struct Part {
    params: wgpu::Buffer,
    told: Option<Params>,
    /// For the buffers of the slots in turn, with the target of now.
    bound: Vec<(wgpu::Buffer, wgpu::BindGroup)>,
}

/// More buffers than slots are seen only while slots grow.
const MOST_BOUND: usize = 16;

impl Target {
    /// # Errors
    /// [`ErrorKind::Unsupported`] for more pixels a side than the adapter takes.
    pub fn new(gpu: &Gpu, size: ImageSize) -> Result<Self> {
        let extent = gpu.extent(size)?;
        let usage = wgpu::TextureUsages::STORAGE_BINDING
            | wgpu::TextureUsages::TEXTURE_BINDING
            | wgpu::TextureUsages::COPY_SRC;
        let (texture, view) = gpu.texture("display", extent, usage);
        Ok(Self { texture, view, size, extent })
    }
}

impl Compose {
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the adapter cannot compute.
    pub fn new(gpu: &Gpu) -> Result<Self> {
        if !gpu.computes {
            let adapter = &gpu.adapter;
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "{adapter} cannot run compute shaders, which a display draws with: update its driver"
                ),
            ));
        }
        let device = &gpu.device;
        let entry = |binding, ty| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty,
            count: None,
        };
        let buffer = |ty, size| wgpu::BindingType::Buffer {
            ty,
            has_dynamic_offset: false,
            min_binding_size: wgpu::BufferSize::new(size),
        };
        let target = wgpu::BindingType::StorageTexture {
            access: wgpu::StorageTextureAccess::WriteOnly,
            format: FORMAT,
            view_dimension: wgpu::TextureViewDimension::D2,
        };
        let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: Some("compose"),
            entries: &[
                entry(
                    0,
                    buffer(wgpu::BufferBindingType::Storage { read_only: true }, size_of::<Params>() as u64),
                ),
                entry(1, buffer(wgpu::BufferBindingType::Storage { read_only: true }, 4)),
                entry(2, target),
            ],
        });
        let shader = device.create_shader_module(wgpu::include_wgsl!("compose.wgsl"));
        let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: Some("compose"),
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some("compose"),
            layout: Some(&pipeline_layout),
            module: &shader,
            entry_point: Some("compose"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        let nothing = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("nothing"),
            size: 4,
            usage: wgpu::BufferUsages::STORAGE,
            mapped_at_creation: false,
        });
        gpu.check()?;
        Ok(Self { layout, pipeline, nothing })
    }

    /// Draw the scene, or nothing but background, into `tile` of the target.
    pub fn draw(
        &self,
        gpu: &Gpu,
        pass: &mut wgpu::ComputePass<'_>,
        part: &mut Part,
        target: &Target,
        tile: Rect,
        scene: Option<&Scene<'_>>,
    ) {
        if tile.width == 0 || tile.height == 0 {
            return;
        }
        let background = BACKGROUND.map(|c| f32::from(c) / 255.0);
        let mut params = Params {
            tile: [tile.x, tile.y, tile.width, tile.height],
            rect: [0.0; 4],
            background: [background[0], background[1], background[2], 1.0],
            after: Source::default(),
            before: Source::default(),
            split: 0,
            sharp: 0,
            pad: [0; 2],
        };
        if let Some(scene) = scene {
            let Placed { x, y, width, height } = scene.placed;
            params.rect = [x, y, width, height].map(|n| n as f32);
            params.after = Source::new(scene.size, 0);
            params.sharp = u32::from(scene.sharp);
            if let (Some((size, start)), Some(split)) = (scene.before, scene.split) {
                params.before = Source::new(size, start);
                params.split = scene.placed.column(split).max(0.0) as u32;
            }
        }
        if part.told.replace(params) != Some(params) {
            gpu.queue.write_buffer(&part.params, 0, bytemuck::bytes_of(&params));
        }
        let pixels = scene.map_or(&self.nothing, |scene| scene.pixels);
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, part.bind(gpu, &self.layout, target, pixels), &[]);
        pass.dispatch_workgroups(tile.width.div_ceil(GROUP), tile.height.div_ceil(GROUP), 1);
    }
}

impl Part {
    pub fn new(gpu: &Gpu) -> Self {
        let params = gpu.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("compose"),
            size: size_of::<Params>() as u64,
            usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        Self { params, told: None, bound: Vec::new() }
    }

    /// There is another target.
    pub fn unbind(&mut self) {
        self.bound.clear();
    }

    fn bind(
        &mut self,
        gpu: &Gpu,
        layout: &wgpu::BindGroupLayout,
        target: &Target,
        pixels: &wgpu::Buffer,
    ) -> &wgpu::BindGroup {
        if let Some(known) = self.bound.iter().position(|(buffer, _)| buffer == pixels) {
            return &self.bound[known].1;
        }
        if self.bound.len() == MOST_BOUND {
            // Buffers that slots have outgrown are let go here.
            self.bound.clear();
        }
        let group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("compose"),
            layout,
            entries: &[
                wgpu::BindGroupEntry { binding: 0, resource: self.params.as_entire_binding() },
                wgpu::BindGroupEntry { binding: 1, resource: pixels.as_entire_binding() },
                wgpu::BindGroupEntry {
                    binding: 2,
                    resource: wgpu::BindingResource::TextureView(&target.view),
                },
            ],
        });
        self.bound.push((pixels.clone(), group));
        &self.bound[self.bound.len() - 1].1
    }
}

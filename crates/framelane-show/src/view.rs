//! How a picture is laid into its target: fitted, letterboxed, split in before and after.

use crate::gpu::Gpu;
use crate::upload::Uploaded;
use framelane::frame::ImageSize;

/// Colour around the picture, sRGB.
pub(crate) const BACKGROUND: [u8; 3] = [22, 24, 29];

/// A rectangle of whole pixels in the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Rect {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) width: u32,
    pub(crate) height: u32,
}

impl Rect {
    /// The largest rectangle of the picture's shape in the middle of a target of `width` × `height`,
    /// in whole pixels so that its edges are sharp.
    pub(crate) fn fit(picture: ImageSize, width: u32, height: u32) -> Self {
        let (w, h) = (picture.width as f64, picture.height as f64);
        let scale = (f64::from(width) / w).min(f64::from(height) / h);
        let side = |n: f64, most: u32| ((n * scale).round() as u32).clamp(1, most.max(1));
        let (w, h) = (side(w, width), side(h, height));
        Self { x: (width.saturating_sub(w)) / 2, y: height.saturating_sub(h) / 2, width: w, height: h }
    }

    /// The first target column right of a divider at `split` (0 to 1).
    pub(crate) fn column(&self, split: f32) -> u32 {
        self.x + (split.clamp(0.0, 1.0) * self.width as f32).round() as u32
    }

    /// Where target column `x` lies in the picture, from 0 to 1.
    pub(crate) fn share(&self, x: f64) -> f32 {
        (((x - f64::from(self.x)) / f64::from(self.width)) as f32).clamp(0.0, 1.0)
    }
}

/// What the shader is told; the layout is that of `view.wgsl`.
#[repr(C)]
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Params {
    rect: [f32; 4],
    background: [f32; 4],
    split: f32,
    target_encodes: u32,
    pad: [u32; 2],
}

/// Draws pictures into targets of one format.
///
/// u8 numbers are shown unchanged: textures are read and targets written without any conversion
/// between sRGB and linear light, so a grey ramp stays a ramp. Scaling therefore mixes sRGB numbers,
/// as video players do. Magnified pictures are interpolated linearly at any factor: switching to
/// hard-edged pixels at exact multiples would make the look jump while a window is resized, and the
/// common case, a picture at its own size, is exact anyway.
#[derive(Debug)]
pub(crate) struct View {
    format: wgpu::TextureFormat,
    layout: wgpu::BindGroupLayout,
    pipeline: wgpu::RenderPipeline,
    params: wgpu::Buffer,
    sampler: wgpu::Sampler,
    /// The bind group, and the serials of the textures that are in it.
    bound: Option<(u64, u64, wgpu::BindGroup)>,
}

impl View {
    pub(crate) fn new(gpu: &Gpu, format: wgpu::TextureFormat) -> Self {
        let device = &gpu.device;
        let shader = device.create_shader_module(wgpu::include_wgsl!("view.wgsl"));
        let texture = wgpu::BindingType::Texture {
            sample_type: wgpu::TextureSampleType::Float { filterable: true },
            view_dimension: wgpu::TextureViewDimension::D2,
            multisampled: false,
        };
        let uniform = wgpu::BindingType::Buffer {
            ty: wgpu::BufferBindingType::Uniform,
            has_dynamic_offset: false,
            min_binding_size: wgpu::BufferSize::new(size_of::<Params>() as u64),
        };
        let sampler = wgpu::BindingType::Sampler(wgpu::SamplerBindingType::Filtering);
        let entries = [uniform, sampler, texture, texture];
        let entries: Vec<_> = (0..)
            .zip(entries)
            .map(|(binding, ty)| wgpu::BindGroupLayoutEntry {
                binding,
                visibility: wgpu::ShaderStages::FRAGMENT,
                ty,
                count: None,
            })
            .collect();
        let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: Some("view"),
            entries: &entries,
        });
        let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: Some("view"),
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let pipeline = device.create_render_pipeline(&wgpu::RenderPipelineDescriptor {
            label: Some("view"),
            layout: Some(&pipeline_layout),
            vertex: wgpu::VertexState {
                module: &shader,
                entry_point: Some("cover"),
                compilation_options: wgpu::PipelineCompilationOptions::default(),
                buffers: &[],
            },
            primitive: wgpu::PrimitiveState::default(),
            depth_stencil: None,
            multisample: wgpu::MultisampleState::default(),
            fragment: Some(wgpu::FragmentState {
                module: &shader,
                entry_point: Some("paint"),
                compilation_options: wgpu::PipelineCompilationOptions::default(),
                targets: &[Some(format.into())],
            }),
            multiview_mask: None,
            cache: None,
        });
        let params = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("view"),
            size: size_of::<Params>() as u64,
            usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let sampler = device.create_sampler(&wgpu::SamplerDescriptor {
            label: Some("view"),
            mag_filter: wgpu::FilterMode::Linear,
            min_filter: wgpu::FilterMode::Linear,
            ..wgpu::SamplerDescriptor::default()
        });
        Self { format, layout, pipeline, params, sampler, bound: None }
    }

    /// Draw `after` into `rect`, and left of the divider, if there is one, `before`.
    pub(crate) fn draw(
        &mut self,
        gpu: &Gpu,
        pass: &mut wgpu::RenderPass<'_>,
        rect: Rect,
        after: &Uploaded,
        before: Option<(&Uploaded, f32)>,
    ) {
        let split = before.map_or(-1e9, |(_, split)| rect.column(split) as f32);
        let before = before.map_or(after, |(before, _)| before);
        let background = BACKGROUND.map(|c| f32::from(c) / 255.0);
        let params = Params {
            rect: [rect.x, rect.y, rect.width, rect.height].map(|n| n as f32),
            background: [background[0], background[1], background[2], 1.0],
            split,
            target_encodes: u32::from(self.format.is_srgb()),
            pad: [0; 2],
        };
        gpu.queue.write_buffer(&self.params, 0, bytemuck::bytes_of(&params));
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, self.bind(gpu, after, before), &[]);
        pass.draw(0..3, 0..1);
    }

    fn bind(&mut self, gpu: &Gpu, after: &Uploaded, before: &Uploaded) -> &wgpu::BindGroup {
        let fits = |bound: &(u64, u64, wgpu::BindGroup)| (bound.0, bound.1) == (after.serial, before.serial);
        if !self.bound.as_ref().is_some_and(fits) {
            self.bound = None;
        }
        let (_, _, group) = self.bound.get_or_insert_with(|| {
            let entries = [
                self.params.as_entire_binding(),
                wgpu::BindingResource::Sampler(&self.sampler),
                wgpu::BindingResource::TextureView(&after.view),
                wgpu::BindingResource::TextureView(&before.view),
            ];
            let entries: Vec<_> = (0..)
                .zip(entries)
                .map(|(binding, resource)| wgpu::BindGroupEntry { binding, resource })
                .collect();
            let group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some("view"),
                layout: &self.layout,
                entries: &entries,
            });
            (after.serial, before.serial, group)
        });
        group
    }
}

/// Begin a pass that clears `target` to the background.
pub(crate) fn begin<'a>(
    encoder: &'a mut wgpu::CommandEncoder,
    target: &wgpu::TextureView,
    format: wgpu::TextureFormat,
) -> wgpu::RenderPass<'a> {
    // A clear colour is given in linear light if the target encodes sRGB.
    let channel = |c: u8| {
        let c = f64::from(c) / 255.0;
        if format.is_srgb() { ((c + 0.055) / 1.055).powf(2.4) } else { c }
    };
    let [r, g, b] = BACKGROUND.map(channel);
    encoder.begin_render_pass(&wgpu::RenderPassDescriptor {
        label: Some("view"),
        color_attachments: &[Some(wgpu::RenderPassColorAttachment {
            view: target,
            depth_slice: None,
            resolve_target: None,
            ops: wgpu::Operations {
                load: wgpu::LoadOp::Clear(wgpu::Color { r, g, b, a: 1.0 }),
                store: wgpu::StoreOp::Store,
            },
        })],
        depth_stencil_attachment: None,
        timestamp_writes: None,
        occlusion_query_set: None,
        multiview_mask: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(w: usize, h: usize, width: u32, height: u32) -> [u32; 4] {
        let r = Rect::fit(ImageSize { width: w, height: h }, width, height);
        [r.x, r.y, r.width, r.height]
    }

    #[test]
    fn fits_whole_pixels_in_the_middle() {
        assert_eq!(fit(640, 360, 640, 360), [0, 0, 640, 360]);
        assert_eq!(fit(640, 360, 800, 800), [0, 175, 800, 450]);
        assert_eq!(fit(360, 640, 801, 640), [220, 0, 360, 640]);
        assert_eq!(fit(3, 2, 1000, 5), [496, 0, 8, 5]);
        assert_eq!(fit(10_000, 1, 100, 100), [0, 49, 100, 1]);
        assert_eq!(fit(1, 1, 1, 1), [0, 0, 1, 1]);
    }

    #[test]
    fn the_divider_goes_there_and_back() {
        let rect = Rect { x: 10, y: 0, width: 200, height: 100 };
        assert_eq!((rect.column(0.0), rect.column(0.5), rect.column(1.0)), (10, 110, 210));
        for column in 10..=210 {
            assert_eq!(rect.column(rect.share(f64::from(column))), column);
        }
        assert_eq!((rect.share(-5.0), rect.share(900.0)), (0.0, 1.0));
    }
}
